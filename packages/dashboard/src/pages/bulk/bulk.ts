/**
 * Runs a bulk action: previews what would happen, then sends the affected rows in parts, so that progress is visible and a lost response costs
 * one part. A part that is sent again changes no row twice. Pure except for the two requests of its ports.
 */
import { errorMessage } from '@bellwether/base'
import type { BulkResult } from '@bellwether/protocol/vocabulary'

export interface BulkLine {
  readonly id: string
  readonly title: string
  /** Before the action. */
  readonly status: string | null
  readonly result: BulkResult
  readonly reason: string | null
  /** The turn that the action started. */
  readonly started?: string | null
}

export interface BulkReport {
  readonly lines: readonly BulkLine[]
  /** More rows match than these. */
  readonly more: boolean
}

export interface BulkInput {
  readonly action: string
  /** The new priority or agent. */
  readonly value: string
  readonly reason: string
  /** Takes back what the same dialog did, so the rows have changed since its preview. */
  readonly isUndo?: true
}

/** What can be done with the selected rows. */
export interface BulkAction {
  readonly name: string
  readonly label: string
  readonly effect: string
  readonly value?: 'priority' | 'agent'
  readonly hasReason?: boolean
  /** The action that takes this one back. */
  readonly inverse?: string
}

export interface BulkPorts {
  preview(input: BulkInput): Promise<BulkReport>
  /** Changes the rows of a preview. */
  run(input: BulkInput, lines: readonly BulkLine[]): Promise<BulkReport>
}

// A part takes well under a second.
const partRows = 50

// A response may have been lost after the server had changed the row.
const mayBeDone = 'the first request may have changed it'

/**
 * Sends the lines with `result`. `shown` gets all lines after each part. After a part that fails as a whole, the rest is not sent: both are
 * reported as failed and can be sent again.
 */
export async function runInParts(
  run: (lines: readonly BulkLine[]) => Promise<BulkReport>,
  lines: readonly BulkLine[],
  result: 'affected' | 'failed',
  shown: (lines: readonly BulkLine[]) => void,
  isStopped: () => boolean,
): Promise<void> {
  let done = [...lines]
  const waiting = lines.flatMap((line, at) => (line.result === result ? [at] : []))
  const failAll = (from: number, reason: string) => {
    for (const at of waiting.slice(from)) done[at] = { ...done[at]!, result: 'failed', reason }
    shown(done)
  }
  for (let from = 0; from < waiting.length; from += partRows) {
    if (isStopped()) return failAll(from, 'not sent: you stopped')
    const part = waiting.slice(from, from + partRows)
    try {
      const { lines: changed } = await run(part.map((at) => lines[at]!))
      const byId = new Map(changed.map((line) => [line.id, line]))
      done = [...done]
      for (const at of part) {
        const line = byId.get(lines[at]!.id) ?? done[at]!
        const isAgain = result === 'failed' && line.result === 'unaffected'
        done[at] = isAgain ? { ...line, reason: [line.reason, mayBeDone].filter(Boolean).join('; ') } : line
      }
      shown(done)
    } catch (error) {
      return failAll(from, errorMessage(error))
    }
  }
}

export const linesWith = (lines: readonly BulkLine[], result: BulkLine['result']): readonly BulkLine[] =>
  lines.filter((line) => line.result === result)
