/** The processes that `up` supervises: status, start time, restarts, and why one is quarantined. */
import type { Component } from '../../api/types.js'
import { oneLine, plural } from '../../model/text.js'
import { keyOf } from '../../model/cascade.js'
import { Chip, Status } from '../../parts/status.js'
import { countdown } from '../../model/time.js'
import { Ago, useNow } from '../../parts/time.js'

export function Processes({ parts }: { readonly parts: readonly Component[] }) {
  return (
    <ul className="divide-y divide-line" aria-label="Processes">
      {parts.map((part) => (
        <li key={keyOf(part)} className="px-3 py-1.5">
          <div className="flex items-center gap-2">
            <bdi className="min-w-0 flex-1 truncate font-medium" title={oneLine(part.name, 300)}>
              {oneLine(part.name, 120)}
            </bdi>
            {part.restarts > 0 && <Chip tone="wait">{plural(part.restarts, 'restart')}</Chip>}
            <Status word={wordOf(part)} />
          </div>
          <p className="flex flex-wrap gap-x-3 text-xs text-ink-3">
            {part.since !== null && part.since !== undefined && (
              <span>
                started <Ago at={part.since} />
              </span>
            )}
            {part.pid !== null && part.pid !== undefined && <span>pid {part.pid}</span>}
            {part.next_start_at !== null && part.next_start_at !== undefined && (
              <span>
                restarts <StartsIn at={part.next_start_at} />
              </span>
            )}
            {part.last_end !== null && part.last_end !== undefined && (
              <bdi>last exit: {oneLine(part.last_end, 200)}</bdi>
            )}
          </p>
          {part.state !== 'ok' && part.because !== null && part.because !== '' && (
            <p className="text-sm text-ink-2">{oneLine(part.because, 300)}</p>
          )}
        </li>
      ))}
    </ul>
  )
}

function StartsIn({ at }: { readonly at: string }) {
  const { text, urgency } = countdown(at, useNow())
  return urgency === 'late' ? 'now' : `in ${text}`
}

// `waiting` already names tools without a result.
const wordOf = ({ status, state }: Component) => (status === 'waiting' ? 'restarting' : (status ?? state))
