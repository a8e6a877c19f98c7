/**
 * Numbers for things that live in pages of typed arrays: handed out, given back, handed out again. Always holds: a number
 * stays with its thing; a page with nothing left on it is given up (one empty page is kept, so that a tree that breathes
 * around a page's edge does not allocate at every breath). Leaves to others: what the columns of a page mean.
 */
export interface Page {
  /** A column that means nothing while its row is free: it links the free rows. */
  readonly link: Uint32Array
  /** How many of its numbers a row has. */
  readonly stride: number
  live: number
  /** First free row + 1, or 0. */
  free: number
  /** Rows from here on were never used. */
  fresh: number
}

export class Slab<P extends Page> {
  readonly pages: P[] = []
  readonly rows: number
  private readonly mask: number
  /** Pages that may have a free row. */
  private open: number[] = []
  private vacant: number[] = []
  private spare: P | undefined

  /** `hole` stands where a page was given up: a page without rows, so that all entries of `pages` look alike to the engine. */
  constructor(
    readonly bits: number,
    private readonly make: () => P,
    private readonly hole: P,
  ) {
    this.rows = 1 << bits
    this.mask = this.rows - 1
  }

  take(): number {
    let position = this.open.at(-1)
    if (position === undefined) position = this.openPage()
    const page = this.pages[position]!
    let row: number
    if (page.free !== 0) {
      row = page.free - 1
      page.free = page.link[row * page.stride]!
    } else {
      row = page.fresh
      page.fresh += 1
    }
    page.live += 1
    if (page.live === this.rows) this.open.pop()
    return position * this.rows + row
  }

  give(id: number): void {
    const position = id >>> this.bits
    const page = this.pages[position]!
    const row = id & this.mask
    if (page.live === this.rows) this.open.push(position)
    page.link[row * page.stride] = page.free
    page.free = row + 1
    page.live -= 1
    if (page.live === 0) this.closePage(position, page)
  }

  /** Bytes held, as the sum of pages; `perRow` is what a row of P weighs. */
  bytes(perRow: number): number {
    const held = this.pages.length - this.vacant.length + (this.spare ? 1 : 0)
    return held * this.rows * perRow
  }

  private openPage(): number {
    const position = this.vacant.pop() ?? this.pages.length
    this.pages[position] = this.spare ?? this.make()
    this.spare = undefined
    this.open.push(position)
    return position
  }

  private closePage(position: number, page: P): void {
    page.free = 0
    page.fresh = 0
    this.pages[position] = this.hole
    this.spare ??= page
    this.vacant.push(position)
    this.open.splice(this.open.indexOf(position), 1)
  }
}
