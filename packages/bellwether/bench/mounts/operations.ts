/**
 * Random changes of a tree through the mounts of several hosts: files, trees, links, odd names, odd times and changes of kind.
 * Every file is opened with O_NOFOLLOW, every path is found by a walk that follows no link, and every link points to a name in
 * its own folder, so that no change leaves the tree. A change that fails because a mount shows an outdated state is counted.
 */
import fs from 'node:fs'
import type { SeededRandom } from '@bellwether/base'

interface Place {
  /** Relative to the root; empty for the root. */
  readonly path: Buffer
  readonly kind: 'file' | 'directory' | 'symlink'
}

export interface Operations {
  /** Makes one change through the mount of a host; returns a line that describes it. */
  next(root: string, host: string): string
  readonly done: Readonly<Record<string, number>>
  /** Changes that failed because the mount showed an outdated state. */
  lost(): number
}

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR, O_TRUNC, O_WRONLY } = fs.constants
// Enough for every change of kind, few enough that a failure can be read.
const entriesMax = 250
const depthMax = 6
// ext4 and tmpfs store files of this size without using space.
const sparseSize = 2 ** 33 + 123
const expected = new Set([
  'ENOENT',
  'EEXIST',
  'ENOTEMPTY',
  'ENOTDIR',
  'EISDIR',
  'EINVAL',
  'ELOOP',
  'ENAMETOOLONG',
  'ESTALE',
  'EIO',
])

const slash = Buffer.from('/')
const join = (directory: Buffer, name: Buffer): Buffer =>
  directory.length === 0 ? name : Buffer.concat([directory, slash, name])
const parentOf = (path: Buffer): Buffer => path.subarray(0, Math.max(0, path.lastIndexOf(slash)))
const shown = (path: Buffer): string => JSON.stringify(`/${path.toString('latin1')}`)

export function openOperations(store: string, chance: SeededRandom): Operations {
  const done: Record<string, number> = {}
  let [lost, made] = [0, 0]
  let root = store
  let through: (path: Buffer) => Buffer = (path) => path

  /** All entries, read from the shared directory itself. */
  function places(): Place[] {
    const found: Place[] = [{ path: Buffer.alloc(0), kind: 'directory' }]
    for (const { path, kind } of found) {
      if (kind !== 'directory') continue
      for (const name of fs.readdirSync(at(store, path), { encoding: 'buffer' })) {
        const child = join(path, name)
        const stat = fs.lstatSync(at(store, child))
        found.push({ path: child, kind: stat.isDirectory() ? 'directory' : stat.isSymbolicLink() ? 'symlink' : 'file' })
      }
    }
    return found
  }
  const at = (base: string, path: Buffer): Buffer => Buffer.concat([Buffer.from(base), slash, path])
  const some = (of: readonly Place[], kind?: Place['kind']): Buffer | undefined => {
    const fitting = of.filter((place) => place.path.length > 0 && (kind === undefined || place.kind === kind))
    return fitting.length === 0 ? undefined : chance.pick(fitting).path
  }
  const depthOf = (path: Buffer) => path.filter((byte) => byte === 47).length
  const somewhere = (of: readonly Place[]): Buffer =>
    chance.pick(of.filter(({ kind, path }) => kind === 'directory' && depthOf(path) < depthMax)).path

  function name(): Buffer {
    made += 1
    const odd = chance.below(12)
    // A few plain names are used again and again, so that files, directories and links replace each other.
    if (odd < 7) return Buffer.from(chance.pick(['a', 'b', 'c', 'd', 'e', 'f']))
    if (odd === 7) return Buffer.concat([Buffer.from([0xff, 0xfe, 0x0a]), Buffer.from(String(made % 5))])
    if (odd === 8) return Buffer.from('ÿ'.repeat(127) + String(made % 9))
    if (odd === 9) return Buffer.from(`line\n"quoted\\${made % 3}  `)
    if (odd === 10) return Buffer.alloc(255, 0x80 + (made % 4))
    return Buffer.from(`n${made}`)
  }
  const fresh = (of: readonly Place[]): Buffer => join(somewhere(of), name())

  function withFile<T>(path: Buffer, flags: number, act: (fd: number) => T): T {
    const fd = fs.openSync(through(path), flags | O_NOFOLLOW, 0o644)
    try {
      return act(fd)
    } finally {
      fs.closeSync(fd)
    }
  }
  const text = (max = 5_000) => Buffer.alloc(1 + chance.below(max), 'x')
  function remove(path: Buffer): void {
    const target = through(path)
    if (!fs.lstatSync(target).isDirectory()) return fs.unlinkSync(target)
    for (const child of fs.readdirSync(target, { encoding: 'buffer' })) remove(join(path, child))
    fs.rmdirSync(target)
  }
  function write(path: Buffer): void {
    withFile(path, O_WRONLY | O_CREAT | O_TRUNC, (fd) => fs.writeSync(fd, text()))
  }
  /** Node reads a negative number as "now", and a date as it is. */
  const time = (): Date => {
    const second = chance.pick([-86_400.5, -1, 0, 1, 1_000_000_000.25, 2_500_000_000, Date.now() / 1_000 - 3_700])
    return new Date(second * 1_000)
  }

  type Act = (all: readonly Place[]) => Buffer | undefined
  const onFile =
    (act: (path: Buffer) => void): Act =>
    (all) => {
      const path = some(all, 'file')
      if (path !== undefined) act(path)
      return path
    }
  const acts: Readonly<Record<string, Act>> = {
    create(all) {
      const path = fresh(all)
      withFile(path, O_WRONLY | O_CREAT | O_EXCL, (fd) => fs.writeSync(fd, text()))
      return path
    },
    overwrite: onFile(write),
    append: onFile((path) => withFile(path, O_WRONLY | O_APPEND, (fd) => fs.writeSync(fd, text(300)))),
    truncate: onFile((path) => withFile(path, O_RDWR, (fd) => fs.ftruncateSync(fd, chance.below(50)))),
    sparse: onFile((path) => withFile(path, O_RDWR, (fd) => fs.ftruncateSync(fd, sparseSize + chance.below(9)))),
    large: onFile((path) => withFile(path, O_WRONLY | O_TRUNC, (fd) => fs.writeSync(fd, text(2_000_000)))),
    save_by_rename(all) {
      const path = some(all, 'file')
      if (path === undefined) return path
      const draft = join(parentOf(path), Buffer.from(`draft${(made += 1)}`))
      write(draft)
      fs.renameSync(through(draft), through(path))
      return path
    },
    edit_and_restore_time: onFile((path) =>
      withFile(path, O_RDWR, (fd) => {
        const { atime, mtime, size } = fs.fstatSync(fd)
        fs.writeSync(fd, text(90), 0, null, Math.min(size, 1_000_000))
        fs.futimesSync(fd, atime, mtime)
      }),
    ),
    set_time: onFile((path) => withFile(path, O_RDWR, (fd) => fs.futimesSync(fd, time(), time()))),
    set_directory_time(all) {
      const path = some(all, 'directory')
      if (path !== undefined) fs.lutimesSync(through(path), time(), time())
      return path
    },
    rename(all) {
      const path = some(all)
      if (path !== undefined) fs.renameSync(through(path), through(fresh(all)))
      return path
    },
    rename_over(all) {
      const [path, target] = [some(all), some(all)]
      if (path !== undefined && target !== undefined) fs.renameSync(through(path), through(target))
      return path
    },
    delete(all) {
      const path = some(all)
      if (path !== undefined) remove(path)
      return path
    },
    delete_and_create(all) {
      const path = some(all, 'file')
      if (path === undefined) return path
      remove(path)
      write(path)
      if (chance.below(2) === 0) withFile(path, O_RDWR, (fd) => fs.futimesSync(fd, time(), time()))
      return path
    },
    make_directory(all) {
      const path = fresh(all)
      fs.mkdirSync(through(path))
      return path
    },
    make_tree(all) {
      const path = fresh(all)
      fs.mkdirSync(through(path))
      for (const below of ['a', 'b', 'd']) {
        fs.mkdirSync(through(join(path, Buffer.from(below))))
        write(join(path, Buffer.from(`${below}/f`)))
      }
      return path
    },
    directory_to_file(all) {
      const path = some(all, 'directory')
      if (path === undefined) return path
      remove(path)
      write(path)
      return path
    },
    file_to_directory(all) {
      const path = some(all, 'file')
      if (path === undefined) return path
      remove(path)
      fs.mkdirSync(through(path))
      write(join(path, name()))
      return path
    },
    /** To a name in the same folder: existing, missing or a directory. */
    link(all) {
      const path = fresh(all)
      fs.symlinkSync(Buffer.from(chance.pick(['a', 'b', 'c', 'missing'])), through(path))
      return path
    },
    to_link(all) {
      const path = some(all)
      if (path === undefined) return path
      remove(path)
      fs.symlinkSync(Buffer.from('a'), through(path))
      return path
    },
  }
  const names = Object.keys(acts)

  return {
    done,
    lost: () => lost,
    next(mount, host) {
      root = mount
      through = (path) => at(root, path)
      const all = places()
      const act = all.length > entriesMax ? 'delete' : chance.pick(names)
      try {
        const path = acts[act]!(all)
        if (path === undefined) return `${host} ${act}: nothing to change`
        done[act] = (done[act] ?? 0) + 1
        return `${host} ${act} ${shown(path)}`
      } catch (error) {
        const { code = '' } = error as NodeJS.ErrnoException
        if (!expected.has(code)) throw error
        lost += 1
        return `${host} ${act}: ${code}`
      }
    },
  }
}
