/** Collects rows in order and joins neighbours of one kind, so that a burst becomes few events. */
import type { FileEventType } from '@bellwether/protocol'
import type { Part } from './messages.js'

export class RowCollector {
  #parts: Part[] = []
  #texts: string[] = []
  #type: FileEventType | undefined
  readonly #perPart: number
  #deletes = false

  /** `perPart`: a part never has more rows, so that it always fits into a batch. */
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

  take(): Part[] {
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
