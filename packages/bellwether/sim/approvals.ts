/** One request for permission: two people decide, its worker takes the decision, and another worker takes the turn over and asks again. */
import type { Kernel } from '../src/kernel/kernel.js'
import type { Fence } from '../src/kernel/verdict.js'
import { project, target } from './actors.js'
import type { Fibre, Invariant } from './engine/index.js'
import { claimant, race, type Opening } from './race.js'
import type { Story } from './story.js'

const request = { toolName: 'Bash', args: { command: 'deploy' }, withinSeconds: 600 }
const looks = 4

/** What a worker does: it asks, then looks for the decision, and notes it if its program may run. */
async function follow(fibre: Fibre, kernel: Kernel, turn: Fence, approvalId: string): Promise<void> {
  const asked = await kernel.askApproval({ ...turn, ...request, approvalId })
  const id = asked.approval_id
  if (id === null) return
  for (let look = 1; look <= looks; look += 1) {
    const { what } = await kernel.takeDecision(id, turn.turnEpoch)
    if (what === 'stale') return
    if (what === 'waiting') {
      await fibre.clock.sleep(1_000)
      continue
    }
    await fibre.db.query({
      text: 'insert into state.sim_decisions values ($1, $2, $3)',
      values: [id, turn.turnEpoch, what],
    })
    return
  }
}

const handedOnce: Invariant = {
  name: 'an approval for one call is handed to one worker',
  sql: `select approval_id, count(distinct turn_epoch) from state.sim_decisions where decision = 'allowed'
    group by 1 having count(distinct turn_epoch) > 1`,
}

const asDecided: Invariant = {
  name: 'a program gets the decision that a person made',
  sql: `select d.approval_id, d.decision, a.status from state.sim_decisions d join state.approvals a using (approval_id)
    where d.turn_epoch is not null and d.decision <> a.status`,
}

const oneDecision: Invariant = {
  name: 'one decision counts',
  sql: `select approval_id, count(*) from state.sim_decisions where decision = 'decided' group by 1 having count(*) > 1`,
}

/** A person decides; one of the decisions does not count. */
async function decide(fibre: Fibre, kernel: Kernel, by: string, scope?: 'once'): Promise<void> {
  const { result } = await kernel.decideApproval({ projectId: project, approvalId: 'a1', by, scope })
  if (result !== 'decided') return
  const text = `insert into state.sim_decisions values ('a1', null, 'decided')`
  await fibre.db.query({ text })
}

async function prepare({ running, kernel }: Opening) {
  const turn = await running('ann')
  await kernel.askApproval({ ...turn, ...request, approvalId: 'a1' })
  return {
    ann: (fibre: Fibre, own: Kernel) => decide(fibre, own, 'ann', 'once'),
    bob: (fibre: Fibre, own: Kernel) => decide(fibre, own, 'bob'),
    worker: (fibre: Fibre, own: Kernel) => follow(fibre, own, turn, 'a1'),
    async successor(fibre: Fibre, own: Kernel) {
      await fibre.db.query({ text: `select * from state.reclaim('${target}', -1, 3, 'epoch', 'infinity', 10)` })
      const { turns } = await own.claim(claimant('successor'))
      for (const taken of turns) await follow(fibre, own, taken, 'a2')
    },
  }
}

const story = race(['ann', 'bob', 'worker', 'successor'], prepare)
export const approvalStory: Story = { ...story, always: [...story.always, handedOnce, oneDecision], atEnd: [asDecided] }
