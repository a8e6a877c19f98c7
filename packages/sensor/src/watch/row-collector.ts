/** Collects rows in order and joins neighbours of the same event type, so that a burst becomes few events. */
import type { FileEventType } from '@bellwether/protocol'
import type { RowGroup } from './messages.js'

// A group fits into a batch, by its rows and by its length in characters.
const rowsMax = 1_000
const lengthMax = 1_000_000

export class RowCollector {
  #parts: RowGroup[] = []
  #texts: string[] = []
  #length = 0
  #type: FileEventType | undefined
  #deletes = false

  get hasDeletes(): boolean {
    return this.#deletes
  }

  add(type: FileEventType, row: string): void {
    if (type !== this.#type || this.#texts.length >= rowsMax || this.#length >= lengthMax) this.#close()
    this.#type = type
    if (type === 'delete') this.#deletes = true
    this.#texts.push(row)
    this.#length += row.length
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
    this.#length = 0
  }
}
