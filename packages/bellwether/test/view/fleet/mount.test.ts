/**
 * Tests a mount point that is unmounted under a running sensor and mounted again (hazard 24). It uses real mounts if the
 * machine allows them (root in a container), and renamed directories otherwise.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../support/until.js'
import { Fleet } from './fleet.js'

interface Mounted {
  readonly isReal: boolean
  /** The path of the files, mounted or not. */
  readonly store: string
  mount(): void
  unmount(): void
  end(): void
}

const does = (command: string, ...words: string[]) => spawnSync(command, words, { timeout: 120_000 }).status === 0

/** The files are in their own tmpfs, which is bind-mounted to the root: the same device and inode each time. */
function mountedAt(root: string, folder: string): Mounted {
  const store = join(folder, 'store')
  mkdirSync(store)
  if (does('mount', '-t', 'tmpfs', 'tmpfs', store)) {
    const must = (isDone: boolean) => expect(isDone).toBe(true)
    return {
      isReal: true,
      store,
      mount: () => must(does('mount', '--bind', store, root)),
      // Lazily, because a thread of the sensor may be reading it.
      unmount: () => must(does('umount', '-l', root)),
      end() {
        does('umount', '-l', root)
        does('umount', '-l', store)
      },
    }
  }
  const under = join(folder, 'under')
  return {
    isReal: false,
    store,
    mount() {
      renameSync(root, under)
      renameSync(store, root)
    },
    unmount() {
      renameSync(root, store)
      renameSync(under, root)
    },
    end: () => rmSync(under, { recursive: true, force: true }),
  }
}

describe('a mounted root', () => {
  let fleet: Fleet
  let mounted: Mounted
  beforeEach(() => {
    fleet = new Fleet({})
    mounted = mountedAt(fleet.root, fleet.folder)
  })
  afterEach(async () => {
    for (const cli of fleet.sensors.values()) cli.signal('SIGKILL')
    mounted.end()
    await fleet.end()
  })

  it('[V5.3] [V5.1] an unmounted root deletes nothing and reports nothing below it; after a remount the view equals the disk', async () => {
    for (let f = 0; f < 30; f += 1) writeFileSync(join(mounted.store, `f${f}`), 'x'.repeat(f))
    mkdirSync(join(mounted.store, 'd'))
    writeFileSync(join(mounted.store, 'd', 'inside'), 'x')
    mounted.mount()
    await fleet.serve()
    fleet.sensor('a', { args: mounted.isReal ? ['--mounted'] : [] })
    await fleet.connected('a')
    await fleet.equal()
    const { item_count: before } = (await fleet.stats())!
    const source = async () =>
      (await fleet.sessions())[0]?.agent_status?.units.find(({ kind }) => kind === 'source') ?? {
        state: '?',
        error: '',
      }

    mounted.unmount()
    await until('the source failed', async () => (await source()).state === 'failed' || undefined)
    expect((await source()).error).toMatch(mounted.isReal ? /unmounted/ : /another directory|gone/)
    writeFileSync(fleet.at('under-the-mount'), 'not ours')
    // Another host changes the filesystem in between.
    writeFileSync(join(mounted.store, 'd', 'new'), 'from another host')
    unlinkSync(join(mounted.store, 'f7'))
    const response = await fleet.ask('/views/v/tree?path=/under-the-mount&force-real-time=true&wait=5')
    expect(response.status).toBe(404)
    expect((await fleet.stats())!.item_count).toBe(before)
    expect((await fleet.blindSpots())!.deletions).toEqual([])

    unlinkSync(fleet.at('under-the-mount'))
    mounted.mount()
    await until('the source is well again', async () => (await source()).state === 'ok' || undefined, 40_000)
    await fleet.equal()
    expect(await fleet.node('/d/new')).toBeDefined()
    writeFileSync(fleet.at('seen-at-once'), 'again')
    await fleet.equal()
  })
})
