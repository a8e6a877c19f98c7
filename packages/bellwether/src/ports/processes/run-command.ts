/**
 * Runs one command without a turn and reports how it ended. The command runs in its own session with a time limit, in a folder
 * inside the root, with only the allowed environment; its captured output is bounded. Afterwards its descendants are killed. Never
 * throws: a command that cannot run is a result.
 */
import { type Clock, defined, errorMessage, linkAbort } from '@bellwether/base'
import type { Ids } from '../ids.js'
import { keepTail } from './capture.js'
import { leaveCgroup } from './cgroup.js'
import { startCleaner } from './cleaner.js'
import { inheritedEnvironment, noUpdateNotices } from './environment.js'
import { folderInside } from './folder.js'
import { killTree } from './kill-tree.js'
import { launch, type Launch, type Launched } from './run.js'
import { tokenName } from './token.js'

export interface CommandRequest {
  /** One line for /bin/sh, or a program with its arguments. */
  readonly command: string | readonly string[]
  readonly root: string
  /** Inside the root; default: the root. */
  readonly cwd?: string
  readonly timeoutMs: number
  /** Names of further environment variables that it may read. */
  readonly environment?: readonly string[]
  readonly signal?: AbortSignal
  /** What it reads from stdin. Default: nothing. */
  readonly input?: string
  /** Whether a cleaner kills the command if this process is killed. */
  readonly endsWithProcess?: boolean
  /** Puts the command into a sandbox. Default: it runs as it is. */
  readonly enter?: Enter
}

/** Changes a command before it starts. `close` is called when it has ended. */
export type Enter = (
  command: Pick<Launch, 'command' | 'cwd' | 'env'>,
) => Promise<
  Pick<Launch, 'command' | 'env' | 'onMessage'> & { readonly isSandboxed?: boolean; readonly close: () => void }
>

const asItIs: Enter = async ({ command, env }) => ({ command, env, close: () => undefined })

export interface CommandResult {
  /** null: a signal ended it, or it never started. */
  readonly exitCode: number | null
  readonly signal: string | null
  readonly timedOut: boolean
  readonly durationMs: number
  /** The last bytes of stdout and stderr together. */
  readonly output: string
  /** Why it could not run. */
  readonly failure?: string
  /** Whether it ran in a sandbox. */
  readonly isSandboxed?: boolean
}

// Enough for the end of a test report; more would fill the log.
const outputMaxBytes = 16_384
// The time between SIGTERM and SIGKILL, and the time for descendants to close the outputs.
const graceMs = 2_000
// A Node timer with a longer delay fires at once.
const timerMaxMs = 2 ** 31 - 1

const notRun = (failure: string): CommandResult => ({
  exitCode: null,
  signal: null,
  timedOut: false,
  durationMs: 0,
  output: '',
  failure,
})

export async function runCommand(
  request: CommandRequest,
  { clock, ids }: { readonly clock: Clock; readonly ids: Ids },
): Promise<CommandResult> {
  const { command, signal, enter = asItIs } = request
  if (signal?.aborted === true) return notRun('the command was aborted')
  const token = ids.next()
  const cleaner = request.endsWithProcess === true ? startCleaner(token) : undefined
  const startedMs = clock.monotonicMs()
  const tail = keepTail(outputMaxBytes)
  let child: Launched
  let leave = () => {}
  let isSandboxed: boolean | undefined
  try {
    const cwd = folderInside(request.root, request.cwd ?? '.')
    const {
      close,
      isSandboxed: entered,
      ...inside
    } = await enter({
      command: typeof command === 'string' ? ['/bin/sh', '-c', command] : command,
      cwd,
      env: { ...noUpdateNotices, ...inheritedEnvironment(request.environment ?? []), [tokenName]: token },
    })
    leave = close
    isSandboxed = entered
    child = launch({
      ...inside,
      cwd,
      stdin: request.input ?? '',
      token,
      name: token,
      onOutput: (_stream, chunk) => tail.add(chunk),
    })
  } catch (error) {
    cleaner?.kill('SIGKILL')
    leave()
    return notRun(errorMessage(error))
  }
  const stop = linkAbort(signal)
  const limit = clock.sleep(Math.min(request.timeoutMs, timerMaxMs), stop.signal).then(() => 'over' as const)
  const isOver = (await Promise.race([child.exit, limit])) === 'over'
  const wasAborted = isOver && stop.signal.aborted
  stop.abort()
  stop.release()
  // Remaining descendants keep the outputs open and could still change files that are about to be checked.
  if (child.pid !== undefined)
    await killTree({ clock, graceMs: isOver ? graceMs : 0, root: child.pid, wanted: (other) => other === token })
  leaveCgroup(token)
  cleaner?.kill('SIGKILL')
  const exit = await child.exit
  await child.drain(clock, graceMs)
  leave()
  const failure = exit.how === 'not_started' ? exit.message : wasAborted ? 'the command was aborted' : undefined
  return {
    exitCode: exit.how === 'exited' && !isOver ? exit.code : null,
    signal: exit.how === 'signalled' ? exit.signal : null,
    timedOut: isOver && !wasAborted,
    durationMs: clock.monotonicMs() - startedMs,
    output: tail.text(),
    ...defined({ failure, isSandboxed }),
  }
}
