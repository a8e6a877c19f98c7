/** Trails: replay an ended turn, fork it, export it, import one. */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { trailDocument, trailFormat, trailVersion, type Trail } from '@bellwether/protocol/http'
import { readTrail } from '../../kernel/reads/trail.js'
import { importTurn } from '../../kernel/verbs/turn/import_turn.js'
import { version } from '../../settings/version.js'
import { sha256 } from '../../worker/replay/compare.js'
import { noTurn, type Api, type KernelParts } from '../api.js'
import { callerName } from '../auth.js'
import { once } from '../idempotency.js'

export function trailRoutes(api: Api, { kernel, tail }: KernelParts): void {
  async function trailOf(project: string, turn: string): Promise<Trail> {
    const trail = await readTrail(kernel.db, project, turn, version())
    if (trail === undefined) throw noTurn(turn, project)
    return trail
  }

  // Replays and forks are rare, and need the code of every executor.
  api('GET /projects/:project/turns/:turn/replay', async ({ params }) => {
    const { replay } = await import('../../worker/replay/replay.js')
    return replay(await trailOf(params.project, params.turn))
  })

  api('POST /projects/:project/turns/:turn/fork', (request, reply) => {
    const { params, body, grant } = request
    return once(kernel, request, reply, params.project, async (inboxId) => {
      const trail = await trailOf(params.project, params.turn)
      if (trail.turn.message_type === 'ui_action')
        throw new Terminal('Cannot fork a person’s action: no agent ran it', {
          code: 'not_forkable',
          hint: 'run the action again',
        })
      const { forkOf } = await import('../../worker/replay/fork.js')
      const started = await kernel.forkTurn({
        ...forkOf(trail, body.at, body.edit, kernel.ids),
        inboxId,
        source: trail.turn,
        at: body.at,
        message: body.edit?.message === undefined ? undefined : { text: body.edit.message, sender: callerName(grant) },
      })
      tail.wake()
      return { agent_turn_id: started.agentTurnId, inbox_id: started.inboxId, status: started.status }
    })
  })

  api('GET /projects/:project/turns/:turn/export', async ({ params }) =>
    sealed(await trailOf(params.project, params.turn)),
  )

  api('POST /projects/:project/imports', async ({ params, body, grant }) => {
    const trail = trailIn(body)
    await importTurn(kernel.db, kernel.ids, { projectId: params.project, trail, importedBy: callerName(grant) })
    const { agent_turn_id: id, agent_id: agent, outcome } = trail.turn
    return { agent_turn_id: id, agent_id: agent, outcome }
  })
}

// An error names the first problems.
const issuesMax = 5

/** Throws InvalidInput with what is wrong and what to do. */
export function trailIn(document: Readonly<Record<string, unknown>>): Trail {
  const { format, version: written } = document
  const cannot = 'Cannot import the trail'
  if (format !== trailFormat)
    throw new InvalidInput(
      `${cannot}: "format" must be "${trailFormat}" (got ${JSON.stringify(format) ?? 'nothing'})`,
      { code: 'invalid_trail', hint: 'give a file that `bellwether turn export` wrote' },
    )
  if (typeof written === 'number' && written > trailVersion)
    throw new InvalidInput(`${cannot}: its version is ${written}, and this server reads up to ${trailVersion}`, {
      code: 'newer_trail',
      hint: 'update this server, or export the turn with an older one',
    })
  const read = trailDocument.safeParse(document)
  if (read.success) {
    const damage = damageOf(read.data)
    if (damage === undefined) return read.data
    throw new InvalidInput(`${cannot}: ${damage}`, {
      code: 'damaged_trail',
      hint: 'export the turn again; a trail must not be cut or edited',
    })
  }
  const issues = read.error.issues.slice(0, issuesMax).map(({ path, message }) => `"${path.join('.')}": ${message}`)
  throw new InvalidInput(`${cannot}: ${issues.join('; ')}`.slice(0, 1_000), {
    code: 'invalid_trail',
    hint: 'export the turn again; a trail must not be edited by hand',
  })
}

/** The document with the hash of its content. */
export function sealed({ sha256: _old, ...trail }: Trail): Trail {
  return { ...trail, sha256: sha256(trail) }
}

/** What shows that a valid document is not the one that was exported. Undefined: nothing does. */
function damageOf({ sha256: stated, ...trail }: Trail): string | undefined {
  const { cards, compacted, version: written, turn } = trail
  if (written > 1 && stated !== sha256(trail)) return 'its content does not match its "sha256"'
  const known = new Set<string>()
  for (const { card_id: id } of [...cards, ...compacted]) {
    if (known.has(id)) return `it has card ${JSON.stringify(id)} twice`
    known.add(id)
  }
  const { deliverable_card_id: deliverable } = turn
  if (deliverable !== null && !known.has(deliverable))
    return `"turn.deliverable_card_id" names card ${JSON.stringify(deliverable)}, which it does not have`
  return undefined
}
