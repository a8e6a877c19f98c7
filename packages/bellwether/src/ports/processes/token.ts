/**
 * The turn token: every process of a turn has it in its environment, so that the process is found even if it changes its group,
 * session or parent. It names the installation, the worker process, the agent, the turn and the epoch. Its parts contain no dot,
 * which separates them.
 */
export const tokenName = 'BELLWETHER_TURN_TOKEN'

export interface TurnToken {
  /** The installation: one machine may serve several databases that use the same names. */
  readonly installation: string
  /** The worker's pid namespace: a pid is valid in its namespace only. */
  readonly namespace: string
  readonly workerPid: number
  /** The start time of the worker's process in ticks, because the pid may be reused. */
  readonly workerStart: string
  readonly projectId: string
  readonly agentId: string
  readonly agentTurnId: string
  readonly turnEpoch: number
}

const order = [
  'installation',
  'namespace',
  'workerPid',
  'workerStart',
  'projectId',
  'agentId',
  'agentTurnId',
  'turnEpoch',
] as const

export function writeToken(token: TurnToken): string {
  return order.map((part) => String(token[part])).join('.')
}

/** What the tokens of one worker have in common. */
export type WorkerTokens = Pick<TurnToken, 'installation' | 'namespace' | 'workerPid' | 'workerStart'>

/** The prefix of all tokens of one worker. */
export const workerTokens = (worker: WorkerTokens) =>
  `${order
    .slice(0, 4)
    .map((part) => String(worker[part as keyof typeof worker]))
    .join('.')}.`

/** Undefined if writeToken did not write the text. */
export function readToken(written: string): TurnToken | undefined {
  const parts = written.split('.')
  if (parts.length !== order.length || parts.some((part) => !/^[\w-]+$/.test(part))) return undefined
  const text = Object.fromEntries(order.map((part, at) => [part, parts[at]])) as Record<(typeof order)[number], string>
  if (!/^\d+$/.test(text.workerPid) || !/^\d+$/.test(text.turnEpoch)) return undefined
  return { ...text, workerPid: Number(text.workerPid), turnEpoch: Number(text.turnEpoch) }
}
