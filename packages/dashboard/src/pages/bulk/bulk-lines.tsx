/** The rows of a preview or a result, each with its reason and what was started. */
import { Link } from '@tanstack/react-router'
import { oneLine, shortId } from '../../model/text.js'
import { Status } from '../../parts/status.js'
import type { BulkLine } from './bulk.js'

interface LinesProps {
  readonly project: string
  readonly title: string
  readonly lines: readonly BulkLine[]
  readonly isOpen?: boolean
}

export function Lines({ project, title, lines, isOpen = false }: LinesProps) {
  if (lines.length === 0) return null
  return (
    <details open={isOpen} className="mt-2">
      <summary className="font-medium">{title}</summary>
      <ul className="mt-1 max-h-56 overflow-y-auto rounded bg-sunk px-2" tabIndex={0} aria-label={title}>
        {lines.map((line) => (
          <li
            key={line.id}
            className="flex flex-wrap items-baseline gap-x-3 border-b border-line py-1 text-sm [content-visibility:auto]"
          >
            <bdi className="font-mono text-xs" title={oneLine(line.id, 120)}>
              {line.id.length > 20 ? shortId(line.id) : oneLine(line.id, 20)}
            </bdi>
            <bdi className="min-w-0 flex-1 truncate">{oneLine(line.title, 120)}</bdi>
            {line.status !== null && <Status word={line.status} />}
            {line.started !== undefined && line.started !== null && (
              <Link to="/p/$project/turns/$turn" params={{ project, turn: line.started }} className="link">
                new turn
              </Link>
            )}
            {line.reason !== null && (
              <span className={`w-full ${line.result === 'failed' ? 'text-bad' : 'text-ink-2'}`}>
                {oneLine(line.reason, 300)}
              </span>
            )}
          </li>
        ))}
      </ul>
    </details>
  )
}
