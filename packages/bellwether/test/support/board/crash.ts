/**
 * Simulates a process that dies at one of its awaits. Every call of the dispatcher to a port has two points to die at: before its
 * effect, and after it but before the acknowledgement. A dead process never resolves again and runs no `finally`.
 */
import type { CachePorts } from '../../../src/board/dispatch/caches.js'
import type { DispatcherOptions } from '../../../src/board/dispatch/dispatcher.js'

export interface Gate {
  /** The number of points passed. */
  readonly passed: number
  readonly died: Promise<'died'>
  readonly where: string | null
  wrap<T extends object>(name: string, target: T): T
}

/** Dies at this point: the nth, or the first with this name. */
export function makeGate(dieAt: number | string): Gate {
  let passed = 0
  let where: string | null = null
  let resolveDied: (word: 'died') => void = () => undefined
  const died = new Promise<'died'>((resolve) => (resolveDied = resolve))
  const never = new Promise<never>(() => undefined)
  const point = (name: string): Promise<void> => {
    if (where !== null) return never
    passed += 1
    if (passed !== dieAt && name !== dieAt) return Promise.resolve()
    where = name
    resolveDied('died')
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
            await point(`before ${call}`)
            const result: unknown = await (value as (...all: unknown[]) => unknown).apply(inner, args)
            await point(`after ${call}`)
            return result
          }
        },
      }),
  }
}

/** Puts all ports of a dispatcher behind one gate. */
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
