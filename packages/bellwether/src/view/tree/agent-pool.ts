/**
 * Maps the ids of reporting sensors to small numbers, which entries store. 0 means no sensor; a number keeps its id while an
 * entry carries it. The owner reports which numbers are in use; the pool asks only when all are taken.
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'

// 16 bits per entry.
const numberMax = 65_535
const lengthMax = 1_024

export class AgentPool {
  private readonly ids: (string | undefined)[] = [undefined]
  private readonly numbers = new Map<string, number>()
  private unused: number[] = []

  constructor(private readonly numbersInUse: () => ReadonlySet<number>) {}

  numberOf(id: string): number {
    const known = this.numbers.get(id)
    if (known !== undefined) return known
    if (id.length > lengthMax)
      throw new InvalidInput(`"agent_id" must have at most ${lengthMax} characters (got ${id.length})`, {
        code: 'invalid_agent',
      })
    if (this.ids.length > numberMax && this.unused.length === 0) this.releaseUnused()
    const number = this.unused.pop() ?? this.ids.length
    this.ids[number] = id
    this.numbers.set(id, number)
    return number
  }

  idOf(number: number): string | undefined {
    return this.ids[number]
  }

  private releaseUnused(): void {
    const inUse = this.numbersInUse()
    for (const [id, number] of this.numbers) {
      if (inUse.has(number)) continue
      this.numbers.delete(id)
      this.ids[number] = undefined
      this.unused.push(number)
    }
    if (this.unused.length === 0)
      throw new Terminal(`Entries of this view come from ${numberMax} sensors, the maximum`, {
        code: 'view_full',
        hint: 'Give each sensor a fixed id that it keeps after a restart.',
      })
  }
}
