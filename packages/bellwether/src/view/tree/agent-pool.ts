/**
 * The ids of those who told us about entries, as small numbers. Always holds: 0 is nobody, and a number stands for one id
 * while an entry carries it. Leaves to others: which numbers are still carried (asked only when all are taken).
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'

// Sixteen bits in an entry; a view that hears of more agents at once does not exist.
const numberMax = 65_535
const lengthMax = 1_024

export class AgentPool {
  private readonly ids: (string | undefined)[] = [undefined]
  private readonly numbers = new Map<string, number>()
  private unused: number[] = []

  constructor(private readonly carried: () => ReadonlySet<number>) {}

  numberOf(id: string): number {
    const known = this.numbers.get(id)
    if (known !== undefined) return known
    if (id.length > lengthMax)
      throw new InvalidInput(`an agent id of ${id.length} characters`, { code: 'invalid_agent' })
    if (this.ids.length > numberMax && this.unused.length === 0) this.forgetUnused()
    const number = this.unused.pop() ?? this.ids.length
    this.ids[number] = id
    this.numbers.set(id, number)
    return number
  }

  idOf(number: number): string | undefined {
    return this.ids[number]
  }

  private forgetUnused(): void {
    const carried = this.carried()
    for (const [id, number] of this.numbers) {
      if (carried.has(number)) continue
      this.numbers.delete(id)
      this.ids[number] = undefined
      this.unused.push(number)
    }
    if (this.unused.length === 0)
      throw new Terminal(`entries of this view come from ${numberMax} agents, and there is no number left`, {
        code: 'view_full',
        hint: 'let sensors keep their ids when they start again',
      })
  }
}
