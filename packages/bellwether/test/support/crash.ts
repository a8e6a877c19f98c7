/**
 * A process that dies at one of its awaits. Every call that leaves the dispatcher has two places to die at: before its effect
 * and after it, unacknowledged. Whoever died never resolves again, and runs no `finally` that could tidy up.
 */
import type { CachePorts } from '../../src/board/dispatch/caches.js'
import type { DispatcherOptions } from '../../src/board/dispatch/dispatcher.js'

export interface Gate {
  /** How many places were passed. */
  readonly passed: number
  readonly died: Promise<'died'>
  readonly where: string | null
  wrap<T extends object>(name: string, target: T): T
}

/** Dies at this place: the nth, or the first of this name. */
export function makeGate(dieAt: number | string): Gate {
  let passed = 0
  let where: string | null = null
  let tell: (word: 'died') => void = () => undefined
  const died = new Promise<'died'>((resolve) => (tell = resolve))
  const never = new Promise<never>(() => undefined)
  const place = (name: string): Promise<void> => {
    if (where !== null) return never
    passed += 1
    if (passed !== dieAt && name !== dieAt) return Promise.resolve()
    where = name
    tell('died')
    return never
  }
  return {
    get passed() {
      return passed
    },
    get where() {
      return where
    },
    died,
    wrap: (name, target) =>
      new Proxy(target, {
        get(inner, key) {
          const value: unknown = Reflect.get(inner, key, inner)
          if (typeof value !== 'function') return value
          return async (...args: unknown[]) => {
            const call = `${name}.${String(key)}`
            await place(`before ${call}`)
            const answer: unknown = await (value as (...all: unknown[]) => unknown).apply(inner, args)
            await place(`after ${call}`)
            return answer
          }
        },
      }),
  }
}

/** The whole outside of a dispatcher behind one gate. */
export function gated(gate: Gate, options: DispatcherOptions): DispatcherOptions {
  return {
    ...options,
    board: gate.wrap('board', options.board),
    spawner: gate.wrap('spawner', options.spawner),
    evidence: gate.wrap('evidence', options.evidence),
    knowledge: gate.wrap('knowledge', options.knowledge),
    verify: gate.wrap('verify', { run: options.verify }).run,
    policies: gate.wrap('policies', { load: options.policies }).load,
  }
}

export const gatedCaches = (gate: Gate, ports: CachePorts): CachePorts => ({
  ...ports,
  disk: gate.wrap('disk', ports.disk),
})
