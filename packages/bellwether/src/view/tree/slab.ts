/**
 * Allocates row numbers in pages of typed arrays and reuses them. A number stays valid until it is freed. A page without live
 * rows is dropped, except for one spare page, so that a tree that grows and shrinks at the edge of a page does not allocate
 * each time. The columns of a page belong to the caller.
 */
export interface Page {
  /** A column that is unused while its row is free; it links the free rows. */
  readonly link: Uint32Array
  /** Numbers per row in `link`. */
  readonly stride: number
  live: number
  /** The first free row + 1, or 0. */
  free: number
  /** The first row that was never used. */
  fresh: number
}

export class Slab<P extends Page> {
  readonly pages: P[] = []
  readonly rows: number
  private readonly mask: number
  /** Pages with a free row. */
  private open: number[] = []
  private vacant: number[] = []
  private spare: P | undefined

  /** `hole` replaces a dropped page: a page without rows, so that all elements of `pages` have the same hidden class. */
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

  /** Bytes of all pages; `perRow` is the size of one row. */
  bytes(perRow: number): number {
    const pages = this.pages.length - this.vacant.length + (this.spare ? 1 : 0)
    return pages * this.rows * perRow
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
