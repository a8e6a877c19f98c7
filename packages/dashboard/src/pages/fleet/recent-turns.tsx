/** How the last turns of the agents ended, the newest first. Rows keep their place and change their text, so that the layout does not move. */
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { Agent } from '../../api/types.js'
import { recentTurns } from '../../model/fleet.js'
import { appearanceOf } from '../../model/status.js'
import { oneLine } from '../../model/text.js'
import { Glyph } from '../../parts/glyph.js'
import { toneText } from '../../parts/status.js'
import { Ago } from '../../parts/time.js'

const shownMax = 8

const isInUse = ({ status }: Agent) => status !== 'retired'

export function RecentTurns({ project, agents }: { readonly project: string; readonly agents: readonly Agent[] }) {
  // Without the agents that an evaluation made for one turn each: they would hide the others.
  const ended = useMemo(() => recentTurns(agents.filter(isInUse), shownMax), [agents])
  if (ended.length === 0) return <p className="px-3 py-2 text-ink-3">No turn has ended yet</p>
  return (
    <ol className="px-3 py-1.5 text-sm">
      {ended.map(({ agent, turn }, at) => {
        const appearance = appearanceOf(turn.outcome)
        return (
          <li key={at} className="flex h-6 items-center gap-2">
            <span className={toneText[appearance.tone]} title={appearance.means}>
              <Glyph shape={appearance.shape} />
            </span>
            <span className="sr-only">{appearance.word}</span>
            <Link
              to="/p/$project/turns/$turn"
              params={{ project, turn: turn.agent_turn_id }}
              className="min-w-0 flex-1 truncate hover:underline"
              title={oneLine(`${agent}: ${appearance.word}`)}
            >
              <bdi>{oneLine(agent, 60)}</bdi>
            </Link>
            <span className="w-16 text-xs text-ink-3">
              <Ago at={turn.ended_at} />
            </span>
          </li>
        )
      })}
    </ol>
  )
}
