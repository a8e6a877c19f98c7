/** The step of one run of a command, while it runs and after it: usage, session, degrade actions, exit. Pure. */
import { defined } from '@bellwether/base'
import { TURN } from '../../kernel/turn.js'
import type { TurnMessage } from '../../kernel/verbs/content/messages.js'
import type { Step } from '../../kernel/verbs/content/record.js'
import type { Degraded } from '../degrade.js'
import type { CommandRun } from './command-run.js'
import type { RunSession } from './session.js'
import type { Delivered } from './stored-result.js'
import type { Usage } from './usage.js'

export interface RanCommand {
  /** The messages that the program got while it ran. */
  readonly written: readonly TurnMessage[]
  readonly stepId: string
  readonly run: CommandRun
  readonly facts: StepFacts
}

export interface StepFacts {
  readonly usage: Usage | undefined
  readonly frozenMs: number
  readonly degraded: readonly Degraded[]
  readonly session: Pick<RunSession, 'id' | 'resumes' | 'before'>
}

/** Every report of a step has its totals: the kernel charges the difference to the last report. */
const metadataOf = ({ usage, frozenMs, degraded, session }: StepFacts) =>
  defined({
    usage,
    frozen_ms: frozenMs > 0 ? Math.round(frozenMs) : undefined,
    degraded: degraded.length === 0 ? undefined : degraded,
    session:
      session.id === undefined
        ? undefined
        : defined({ id: session.id, resumed: session.resumes, before: session.before }),
  })

export const runningStep = (stepId: string, facts: StepFacts): Step => ({
  stepId,
  phase: 'command',
  status: TURN.start.to,
  metadata: metadataOf(facts),
})

export function stepOf({ stepId, run, facts }: RanCommand, { error }: Pick<Delivered, 'error'>): Step {
  return {
    stepId,
    phase: 'command',
    status: error === undefined ? 'success' : 'failed',
    ...defined({ error }),
    metadata: {
      ...metadataOf(facts),
      exit: run.exit,
      duration_ms: run.durationMs,
      stdout_bytes: run.stdoutBytes,
      stderr_bytes: run.stderrBytes,
    },
  }
}
