/** Finds dependency cycles, whose tasks can never become ready. Pure. */
import type { Task } from '../log/task.js'

/** Each cycle once, its smallest id first, in the order of the dependencies. A task that depends on itself is a cycle of one. */
export function dependencyCycles(tasks: Iterable<Task>): readonly (readonly string[])[] {
  const after = new Map<string, readonly string[]>()
  for (const task of tasks) if (task.dependencies.length > 0) after.set(task.taskId, task.dependencies)
  const found: string[][] = []
  const done = new Set<string>()
  for (const start of after.keys()) {
    if (done.has(start)) continue
    // An explicit stack: a chain of 100,000 tasks would overflow the call stack.
    const path: string[] = [start]
    const onPath = new Set(path)
    const next: number[] = [0]
    while (path.length > 0) {
      const at = path.at(-1)!
      const step = next.at(-1)!
      const target = after.get(at)?.[step]
      if (target === undefined) {
        done.add(at)
        onPath.delete(at)
        path.pop()
        next.pop()
        continue
      }
      next[next.length - 1] = step + 1
      if (onPath.has(target)) found.push(cycleFrom(path.slice(path.indexOf(target))))
      else if (!done.has(target) && after.has(target)) {
        path.push(target)
        onPath.add(target)
        next.push(0)
      }
    }
  }
  return found
}

function cycleFrom(members: readonly string[]): string[] {
  const first = members.reduce((best, id, at) => (id < members[best]! ? at : best), 0)
  return [...members.slice(first), ...members.slice(0, first)]
}
