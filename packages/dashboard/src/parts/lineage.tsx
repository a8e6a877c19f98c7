/** Where a turn comes from and what it started: its parent, itself, its children, each with how it stands. */
import { useQueries } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { turnQuery } from '../api/queries.js'
import type { Kin, TurnDetail } from '../api/types.js'
import { oneLine, plural, shortId } from '../facts/text.js'
import { Status } from './status.js'

// A fork of a thousand is counted; a person looks at the first.
const shownMax = 60
// Where the answer does not tell how children stand, these are asked after one by one.
const askedMax = 12

export function Lineage({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const parent =
    turn.parent ??
    (turn.parent_agent_turn_id
      ? { agent_turn_id: turn.parent_agent_turn_id, agent_id: turn.source_agent_id ?? 'parent' }
      : null)
  const untold = turn.children.filter((child) => child.status === undefined).slice(0, askedMax)
  const asked = useQueries({ queries: untold.map((child) => turnQuery(project, child.agent_turn_id)) })
  const told = new Map(
    asked.flatMap(({ data }) => (data === undefined ? [] : [[data.agent_turn_id, data.status] as const])),
  )
  const statusOf = (kin: Kin) => kin.status ?? told.get(kin.agent_turn_id)
  const children = turn.children.slice(0, shownMax)
  return (
    <ul className="px-3 py-2 text-sm" aria-label="Family of this turn">
      {parent !== null && <Relative project={project} kin={parent} status={parent.status} depth={0} />}
      <li
        className={`flex items-center gap-2 py-0.5 font-semibold ${parent === null ? '' : 'ml-4'}`}
        aria-current="true"
      >
        <span className="min-w-0 flex-1 truncate">
          <bdi>{oneLine(turn.agent_id, 80)}</bdi>
        </span>
        <Status word={turn.status} />
      </li>
      {children.map((child) => (
        <Relative
          key={child.agent_turn_id}
          project={project}
          kin={child}
          status={statusOf(child)}
          depth={parent === null ? 1 : 2}
        />
      ))}
      {turn.children.length > shownMax && (
        <li className="ml-8 text-ink-3">and {plural(turn.children.length - shownMax, 'more', 'more')}</li>
      )}
      {parent === null && children.length === 0 && (
        <li className="text-ink-3">Nobody asked it on behalf of another turn; it asked nobody.</li>
      )}
    </ul>
  )
}

interface RelativeProps {
  readonly project: string
  readonly kin: Kin
  readonly status: string | undefined
  readonly depth: number
}

const indents = ['', 'ml-4 border-l border-line-strong pl-2', 'ml-8 border-l border-line-strong pl-2'] as const

function Relative({ project, kin, status, depth }: RelativeProps) {
  return (
    <li className={`flex items-center gap-2 py-0.5 ${indents[depth]}`}>
      <Link
        to="/p/$project/turns/$turn"
        params={{ project, turn: kin.agent_turn_id }}
        className="link min-w-0 flex-1 truncate"
      >
        <bdi>{oneLine(kin.agent_id, 80)}</bdi>{' '}
        <span className="font-mono text-xs text-ink-3">{shortId(kin.agent_turn_id)}</span>
      </Link>
      {status !== undefined && <Status word={status} />}
    </li>
  )
}
