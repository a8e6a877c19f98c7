/** The head of a card: which agent asks, what and when, and until when it waits. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Question } from '../../api/types.js'
import { oneLine } from '../../model/text.js'
import { Ago, Countdown } from '../../parts/time.js'

export interface RequestHeaderProps {
  readonly project: string
  readonly request: Pick<Question, 'agent_id' | 'agent_turn_id' | 'asked_at' | 'deadline'>
  /** What happens at the deadline. */
  readonly end: string
  readonly children: ReactNode
}

export function RequestHeader({ project, request, end, children }: RequestHeaderProps) {
  return (
    <header className="flex flex-wrap items-baseline gap-x-3">
      <Link
        to="/p/$project/turns/$turn"
        params={{ project, turn: request.agent_turn_id }}
        className="link font-semibold"
      >
        <bdi>{oneLine(request.agent_id, 80)}</bdi>
      </Link>
      {children}
      <span className="flex-1 text-sm text-ink-3">
        <Ago at={request.asked_at} />
      </span>
      <span className="text-sm">
        <Countdown until={request.deadline} lead={end} />
      </span>
    </header>
  )
}
