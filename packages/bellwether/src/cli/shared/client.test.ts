/** Tests which server and key a command uses, and which files of a running `up` it refuses. */
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { dataFolderOf } from '../../runtime/data-folder.js'
import { addressOf } from './client.js'

const url = 'http://127.0.0.1:4001'
let top: string
let folder: string
let data: string

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'bw-client-'))
  folder = join(top, 'project')
  mkdirSync(folder)
  vi.stubEnv('XDG_STATE_HOME', join(top, 'state'))
  data = dataFolderOf(folder)
  mkdirSync(data, { recursive: true, mode: 0o700 })
  vi.stubEnv('BELLWETHER_KEY', 'bw_environment')
  vi.stubEnv('BELLWETHER_SERVER', undefined)
})
afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  rmSync(top, { recursive: true, force: true })
})

function writeUp(to = data): void {
  writeFileSync(join(to, 'up.json'), JSON.stringify({ url, pid: process.pid, project: 'p' }), { mode: 0o600 })
  writeFileSync(join(to, 'admin-key'), 'bw_local\n', { mode: 0o600 })
}

/** The reason for which the command refuses the file. A server that the user names needs no file. */
function refusal(): string {
  expect(addressOf({ server: 'http://other:1' }, folder)).toMatchObject({ key: 'bw_environment' })
  try {
    return `used ${addressOf({}, folder).url}`
  } catch (error) {
    return error instanceof InvalidInput ? `${error.code}: ${error.message}` : String(error)
  }
}

describe('the server of a command', () => {
  it('the server of a command is the `up` of the folder, with the key of that `up` and never the key of the environment', () => {
    writeUp()
    expect(addressOf({}, folder)).toMatchObject({ url, key: 'bw_local', project: 'p' })
    rmSync(join(data, 'admin-key'))
    expect(() => addressOf({}, folder)).toThrow(expect.objectContaining({ code: 'no_key' }))
  })

  it('gets the key of the environment if --server or BELLWETHER_SERVER names it', () => {
    writeUp()
    expect(addressOf({ server: url }, folder)).toMatchObject({ url, key: 'bw_environment' })
    vi.stubEnv('BELLWETHER_SERVER', 'http://other:1')
    expect(addressOf({}, folder)).toMatchObject({ url: 'http://other:1', key: 'bw_environment', project: 'default' })
  })

  it('the server of a command is looked for up to the top of the project and not above it', () => {
    writeUp()
    const deep = join(folder, 'src', 'deep')
    mkdirSync(deep, { recursive: true })
    expect(addressOf({}, deep)).toMatchObject({ url })
    for (const mark of ['.git', 'bellwether.toml']) {
      writeFileSync(join(folder, 'src', mark), '')
      expect(() => addressOf({}, deep)).toThrow(expect.objectContaining({ code: 'no_server' }))
      rmSync(join(folder, 'src', mark))
    }
  })

  it('the server of a command is not looked for above the home folder', () => {
    vi.stubEnv('HOME', join(folder, 'home'))
    mkdirSync(join(folder, 'home', 'work'), { recursive: true })
    writeUp()
    expect(() => addressOf({}, join(folder, 'home', 'work'))).toThrow(expect.objectContaining({ code: 'no_server' }))
  })
})

describe('the file of a running `up` is refused', () => {
  it('the file of a running `up` is refused if another account wrote it', () => {
    writeUp()
    const own = process.geteuid!()
    vi.spyOn(process, 'geteuid').mockReturnValue(own + 1)
    expect(refusal()).toMatch(/^unsafe_up_file: .* belongs to another account/)
  })

  it('the file of a running `up` is refused if other accounts can read or write it', () => {
    writeUp()
    chmodSync(join(data, 'up.json'), 0o644)
    expect(refusal()).toMatch(/^unsafe_up_file: .* its mode is 644 instead of 600/)
  })

  it('the file of a running `up` is refused if other accounts can write to its folder', () => {
    writeUp()
    chmodSync(data, 0o777)
    expect(refusal()).toMatch(/^unsafe_up_file: .* other accounts can write to .* \(mode 777\)/)
  })

  it('the file of a running `up` is refused if the file, its folder or the key is a symbolic link', () => {
    const elsewhere = join(top, 'elsewhere')
    mkdirSync(elsewhere, { mode: 0o700 })
    writeUp(elsewhere)
    symlinkSync(join(elsewhere, 'up.json'), join(data, 'up.json'))
    expect(() => addressOf({}, folder)).toThrow(/ELOOP/)
    rmSync(join(data, 'up.json'))
    renameSync(join(elsewhere, 'up.json'), join(data, 'up.json'))
    symlinkSync(join(elsewhere, 'admin-key'), join(data, 'admin-key'))
    expect(() => addressOf({}, folder)).toThrow(/ELOOP/)
    rmSync(data, { recursive: true })
    writeUp(elsewhere)
    symlinkSync(elsewhere, data)
    expect(refusal()).toMatch(/^unsafe_up_file: .* is not a folder/)
  })

  it('through sudo, the hint names the account whose server is meant', () => {
    vi.stubEnv('SUDO_USER', 'ann')
    expect(() => addressOf({}, folder)).toThrow(
      expect.objectContaining({ code: 'no_server', hint: expect.stringContaining('without sudo, as ann') }),
    )
    vi.stubEnv('SUDO_USER', 'root')
    expect(() => addressOf({}, folder)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('bellwether init') }),
    )
  })
})
