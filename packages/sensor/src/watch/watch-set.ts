/**
 * The watched directories: path ↔ watch descriptor, in the order of their last activity. Pure bookkeeping. A path has one
 * descriptor and a descriptor one path. Before adding to a full set, callers evict the directory that `toEvict` returns: the
 * one without activity for the longest time.
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

  /** Adds a watch. The kernel returns the same descriptor for a moved directory; it then gets its new path. */
  add(path: string, watch: number): void {
    const before = this.#byWatch.get(watch)
    if (before !== undefined) this.#byPath.delete(before)
    const other = this.#byPath.get(path)
    if (other !== undefined && other !== watch) this.#byWatch.delete(other)
    this.#byPath.delete(path)
    this.#byPath.set(path, watch)
    this.#byWatch.set(watch, path)
  }

  /** Records activity: the directory becomes the last to be evicted. */
  touch(path: string): void {
    const watch = this.#byPath.get(path)
    if (watch === undefined) return
    this.#byPath.delete(path)
    this.#byPath.set(path, watch)
  }

  /** The directory to evict if the set is full; never the root. */
  toEvict(): string | undefined {
    return this.#byPath.size < this.limit ? undefined : this.quietest()
  }

  quietest(): string | undefined {
    for (const path of this.#byPath.keys()) if (path !== '/') return path
    return undefined
  }

  /** Removes a path and returns its descriptor. */
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

  /** Removes a directory and everything below it; returns their descriptors. */
  removeUnder(path: string): number[] {
    const below = path === '/' ? '/' : `${path}/`
    const gone = [...this.#byPath.keys()].filter((each) => each === path || each.startsWith(below))
    return gone.map((each) => this.remove(each)!)
  }
}
