/** Collects rows in order and joins neighbours of the same event type, so that a burst becomes few events. */
import type { FileEventType } from '@bellwether/protocol'
import type { RowGroup } from './messages.js'

export class RowCollector {
  #parts: RowGroup[] = []
  #texts: string[] = []
  #type: FileEventType | undefined
  readonly #perPart: number
  #deletes = false

  /** `perPart`: the maximum rows per group, so that a group fits into a batch. */
  constructor(perPart: number) {
    this.#perPart = perPart
  }

  get isEmpty(): boolean {
    return this.#texts.length === 0 && this.#parts.length === 0
  }
  get hasDeletes(): boolean {
    return this.#deletes
  }

  add(type: FileEventType, row: string): void {
    if (type !== this.#type || this.#texts.length >= this.#perPart) this.#close()
    this.#type = type
    if (type === 'delete') this.#deletes = true
    this.#texts.push(row)
  }

  take(): RowGroup[] {
    this.#close()
    const parts = this.#parts
    this.#parts = []
    this.#deletes = false
    return parts
  }

  #close(): void {
    if (this.#texts.length === 0 || this.#type === undefined) return
    this.#parts.push({ type: this.#type, rows: this.#texts.join(','), count: this.#texts.length })
    this.#texts = []
  }
}
