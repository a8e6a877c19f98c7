/**
 * The token of a turn: what every process of a turn carries in its environment, so that it can be found whatever it did with its
 * group, its session or its parent. It says whose it is: which installation, which worker process, which agent, turn and epoch.
 * Always: its parts hold no dot, so that a token can be taken apart again.
 */
export const tokenName = 'BELLWETHER_TURN_TOKEN'

export interface TurnToken {
  /** Which installation: a machine may serve several databases that use the same names. */
  readonly installation: string
  /** The worker's pid namespace: pids of another one mean nothing here. */
  readonly namespace: string
  readonly workerPid: number
  /** When the worker's process started, in the kernel's ticks: a pid alone may be someone else's by now. */
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

/** Undefined: it was not written by writeToken. */
export function readToken(text: string): TurnToken | undefined {
  const parts = text.split('.')
  if (parts.length !== order.length || parts.some((part) => !/^[\w-]+$/.test(part))) return undefined
  const [installation, namespace, workerPid, workerStart, projectId, agentId, agentTurnId, turnEpoch] = parts as [
    string,
    string,
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  if (!/^\d+$/.test(workerPid) || !/^\d+$/.test(turnEpoch)) return undefined
  return {
    installation: installation,
    namespace,
    workerPid: Number(workerPid),
    workerStart,
    projectId,
    agentId,
    agentTurnId,
    turnEpoch: Number(turnEpoch),
  }
}
