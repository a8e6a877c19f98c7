/**
 * The watched directories: path ↔ watch descriptor, in the order of their last activity. Pure bookkeeping. Always: one
 * path has one descriptor and one descriptor one path; the set never grows past its limit: whoever adds is told which
 * one to give up, the one that has been quiet for longest.
 */
export class WatchSet {
  readonly limit: number
  readonly #byPath = new Map<string, number>()
  readonly #byWatch = new Map<number, string>()

  constructor(limit: number) {
    this.limit = limit
  }

  get size(): number {
    return this.#byPath.size
  }
  paths(): string[] {
    return [...this.#byPath.keys()]
  }
  has(path: string): boolean {
    return this.#byPath.has(path)
  }
  watchOf(path: string): number | undefined {
    return this.#byPath.get(path)
  }
  pathOf(watch: number): string | undefined {
    return this.#byWatch.get(watch)
  }

  /** Notes a watch; the kernel gives the same descriptor for a directory that moved, which then has its new path. */
  add(path: string, watch: number): void {
    const before = this.#byWatch.get(watch)
    if (before !== undefined) this.#byPath.delete(before)
    const other = this.#byPath.get(path)
    if (other !== undefined && other !== watch) this.#byWatch.delete(other)
    this.#byPath.delete(path)
    this.#byPath.set(path, watch)
    this.#byWatch.set(watch, path)
  }

  /** Something happened there: it is now the last to be given up. */
  touch(path: string): void {
    const watch = this.#byPath.get(path)
    if (watch === undefined) return
    this.#byPath.delete(path)
    this.#byPath.set(path, watch)
  }

  /** The quietest directory but the root, while the set is full. */
  crowded(): string | undefined {
    return this.#byPath.size < this.limit ? undefined : this.quietest()
  }

  quietest(): string | undefined {
    for (const path of this.#byPath.keys()) if (path !== '/') return path
    return undefined
  }

  /** Forgets a path; answers with its descriptor. */
  remove(path: string): number | undefined {
    const watch = this.#byPath.get(path)
    if (watch === undefined) return undefined
    this.#byPath.delete(path)
    this.#byWatch.delete(watch)
    return watch
  }

  forget(watch: number): string | undefined {
    const path = this.#byWatch.get(watch)
    if (path !== undefined) this.remove(path)
    return path
  }

  /** Forgets a directory and everything below it; answers with the descriptors. */
  removeUnder(path: string): number[] {
    const below = path === '/' ? '/' : `${path}/`
    const gone = [...this.#byPath.keys()].filter((each) => each === path || each.startsWith(below))
    return gone.map((each) => this.remove(each)!)
  }
}
