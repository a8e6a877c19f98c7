/** The fence of a request of an HTTP worker. */
import { Terminal } from '@bellwether/protocol'
import type { Kernel } from '../../kernel/kernel.js'
import { turnOwner, type TurnOwner } from '../../kernel/reads/work.js'
import type { Fence } from '../../kernel/verdict.js'
import { notFound } from '../api.js'
import type { Grant } from '../auth.js'
import { mustReachProject } from '../roles.js'

export const stale = () =>
  new Terminal('This worker no longer holds the turn; nothing was changed', {
    code: 'stale',
    hint: 'stop working on the turn: another worker holds it, or it has ended',
  })

/** The database knows the turn's project and agent; the worker sends only its epoch. */
export async function fenceOf(
  { db }: Pick<Kernel, 'db'>,
  grant: Grant,
  turn: string,
  turnEpoch: number,
): Promise<Fence & TurnOwner> {
  const owner = await turnOwner(db, turn)
  if (owner === undefined) throw notFound(`Turn ${turn}`)
  mustReachProject(grant, owner.projectId)
  return { ...owner, agentTurnId: turn, turnEpoch }
}
