/**
 * Messages to the turn of a program. A program that keeps its input open reads them while it runs; any other one gets them with its next run
 * in the same session, and is interrupted for an urgent one. If a program prints nothing at first, a wrapper may be reading its input to
 * the end: the input is closed, and the program gets messages with its next run. A message that a lost worker had taken, and that the session may not contain,
 * is handed to the next run again, under the same id.
 */
import { aborted, type Clock, type Log } from '@bellwether/base'
import type { Card } from '../../kernel/verbs/cards.js'
import type { TurnMessage } from '../../kernel/verbs/content/messages.js'
import { textOf } from '../card-text.js'
import { FenceLost, type TurnContext } from '../agent.js'
import { interrupted, type RunInput } from './command-run.js'
import type { ParsedOutput } from './parsed-output.js'
import { messageUuid, type RunSession } from './session.js'

// A person waits this long at most until a running program gets a message; one short query per running program.
const pollMs = 2_000
/** A program that keeps its input open prints its first event when it has read the prompt. */
export const firstEventMs = 60_000

type Handed = Pick<TurnMessage, 'seq' | 'sender' | 'text'>

/** The messages that the turn had taken before. */
export function takenMessages(output: readonly Pick<Card, 'metadata' | 'content'>[]): Handed[] {
  return output.flatMap(({ metadata, content }) => {
    const message = metadata['message'] as { readonly seq?: number; readonly sender?: string } | undefined
    return message?.seq === undefined ? [] : [{ seq: message.seq, sender: message.sender ?? '', text: textOf(content) }]
  })
}

export const messageText = ({ seq, sender, text }: Handed) => `Message ${seq} from ${sender}:\n${text}`

const line = (uuid: string, text: string) =>
  `${JSON.stringify({ type: 'user', uuid, message: { role: 'user', content: [{ type: 'text', text }] }, parent_tool_use_id: null })}\n`

/** The prompt as the first line of an open input, then the messages, which the program may have read before. */
export function openingLines(context: TurnContext, prompt: string, messages: readonly Handed[]): string {
  const { agentTurnId } = context.turn
  const others = messages.map((one) => line(messageUuid(agentTurnId, one.seq), messageText(one)))
  return [line(context.newId(), prompt), ...others].join('')
}

export interface Steering {
  /** The messages that were written to the input. */
  readonly written: readonly TurnMessage[]
  /** Gets the open input of the program. Undefined if the program has none. */
  readonly onInput: ((input: RunInput) => void) | undefined
  /** Writes a warning of Bellwether to the input, if it is open, and to the transcript. */
  warn(text: string): void
  /** Notes that the program has printed something. */
  printed(): void
  /** Notes what the program has printed: the input closes after its result. */
  see(output: ParsedOutput): void
}

export interface SteeringOptions {
  readonly context: TurnContext
  readonly session: RunSession
  readonly clock: Clock
  readonly log: Log
  /** How long to wait for the first output of a program whose input is open. */
  readonly firstEventMs: number
  /** Stops the program with a reason. */
  readonly stop: (reason: string) => void
  /** Aborts when the run has ended. */
  readonly signal: AbortSignal
}

export function steer(options: SteeringOptions): Steering {
  const { context, session, clock, log, stop, signal } = options
  const { agentTurnId } = context.turn
  let input: RunInput | undefined
  let hasResult = false
  const written: TurnMessage[] = []

  async function step(): Promise<void> {
    const { waiting, urgent } = (await context.waiting?.()) ?? { waiting: false, urgent: false }
    if (!waiting || hasResult || session.id === undefined) return
    if (input === undefined) return urgent ? stop(interrupted) : undefined
    for (const message of await context.messages()) {
      written.push(message)
      // If the input has closed, the next run gets the message.
      input.write(line(messageUuid(agentTurnId, message.seq), messageText(message)))
    }
  }

  async function follow(): Promise<void> {
    const over = aborted(signal)
    while (!signal.aborted) {
      await Promise.race([clock.sleep(pollMs, signal), over])
      if (signal.aborted) return
      try {
        await step()
      } catch (error) {
        if (error instanceof FenceLost) return
        log.warn({ err: error, agent_turn_id: agentTurnId }, 'messages to a turn not read')
      }
    }
  }
  if (context.waiting !== undefined) void follow()

  let hasPrinted = false
  async function endSilentInput(open: RunInput): Promise<void> {
    await clock.sleep(options.firstEventMs, signal)
    if (hasPrinted || signal.aborted) return
    input = undefined
    open.endInput()
    const content = `The program has printed nothing for ${options.firstEventMs / 1_000} s, so its input was closed. It gets messages when it is resumed.`
    context.say({ kind: 'note', content })
  }

  return {
    written,
    onInput: session.streams
      ? (open) => {
          input = open
          void endSilentInput(open)
        }
      : undefined,
    warn(text) {
      const reads = input !== undefined && !hasResult
      if (reads) input!.write(line(context.newId(), text))
      context.say({
        kind: 'note',
        content: `${reads ? 'Warning to the agent' : 'Warning, which the program cannot read'}: ${text}`,
      })
    },
    printed: () => void (hasPrinted = true),
    see({ text, failure }) {
      if (text === undefined && failure === undefined) return
      hasResult = true
      input?.endInput()
    },
  }
}
