/** The parent and children of a turn, each with its status. */
import { reasonInWords } from '@bellwether/protocol/spending'
import { Link } from '@tanstack/react-router'
import type { Relative, TurnDetail } from '../../api/types.js'
import { countRelatives, tallyRelatives } from '../../model/relatives.js'
import { oneLine, plural, shortId } from '../../model/text.js'
import { duration, msOf } from '../../model/time.js'
import { Status } from '../../parts/status.js'

// A fork-join may have a thousand children; the first ones are listed, all are counted.
const shownMax = 60

export function Lineage({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const { parent, children } = turn
  const all = countRelatives(children)
  const self = (
    <li>
      <div className="flex items-center gap-2 py-0.5 font-semibold" aria-current="true">
        <span className="min-w-0 flex-1 truncate">
          <bdi>{oneLine(turn.agent_id, 80)}</bdi> <span className="text-xs font-normal text-ink-3">this turn</span>
        </span>
        <Status word={turn.status} />
      </div>
      <Children project={project} relatives={children} />
    </li>
  )
  return (
    <div className="px-3 py-2 text-sm">
      {all > 4 && (
        <p className="mb-1 flex flex-wrap items-center gap-2 text-ink-2">
          {plural(all, 'turn')} below it:
          {tallyRelatives(children).map(([word, number]) => (
            <span key={word} className="flex items-center gap-1">
              {number} <Status word={word} />
            </span>
          ))}
        </p>
      )}
      <ul aria-label="Parent and children of this turn">
        {parent === null ? (
          self
        ) : (
          <li>
            <RelativeLine project={project} relative={parent} />
            <ul className={branch}>{self}</ul>
          </li>
        )}
      </ul>
      {turn.children_truncated && <p className="label pt-1">More exist.</p>}
      {parent === null && children.length === 0 && <p className="text-ink-3">No parent and no children.</p>}
    </div>
  )
}

const branch = 'ml-1.5 border-l border-line-strong pl-3'

function Children({ project, relatives }: { readonly project: string; readonly relatives: readonly Relative[] }) {
  if (relatives.length === 0) return null
  return (
    <ul className={branch}>
      {relatives.slice(0, shownMax).map((one) => (
        <li key={one.agent_turn_id}>
          <RelativeLine project={project} relative={one} />
          {one.error !== null && one.error !== undefined && (
            <p className="truncate text-xs text-bad" title={oneLine(one.error, 500)}>
              <bdi>{oneLine(reasonInWords(one.error), 120)}</bdi>
            </p>
          )}
          <Children project={project} relatives={one.children ?? []} />
        </li>
      ))}
      {relatives.length > shownMax && (
        <li className="text-ink-3">and {plural(relatives.length - shownMax, 'more', 'more')}</li>
      )}
    </ul>
  )
}

function RelativeLine({ project, relative }: { readonly project: string; readonly relative: Relative }) {
  const agent = relative.agent_id ?? 'unknown agent'
  const [from, to] = [msOf(relative.started_at), msOf(relative.ended_at)]
  return (
    <div className="flex items-center gap-2 py-0.5">
      <Link
        to="/p/$project/turns/$turn"
        params={{ project, turn: relative.agent_turn_id }}
        className="link min-w-0 flex-1 truncate"
        title={oneLine(`${agent} ${shortId(relative.agent_turn_id)}`)}
      >
        <bdi>{oneLine(agent, 80)}</bdi>{' '}
        <span className="font-mono text-xs text-ink-3">{shortId(relative.agent_turn_id)}</span>
      </Link>
      {from !== null && to !== null && <span className="text-xs text-ink-3">{duration(to - from)}</span>}
      {relative.status === null ? <span className="text-ink-3">removed</span> : <Status word={relative.status} />}
    </div>
  )
}
