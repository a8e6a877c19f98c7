/** Finds the process that listens on a TCP port of this machine, from /proc. Names at most one. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export interface PortHolder {
  readonly pid: number
  /** Its command line, shortened. */
  readonly command: string
}

const listening = '0A'
const commandMaxChars = 80

/** Undefined without /proc, or if the process belongs to an account whose files this one cannot read. */
export function portHolder(port: number): PortHolder | undefined {
  const sockets = new Set(['tcp', 'tcp6'].flatMap((table) => socketsOn(port, table)))
  if (sockets.size === 0) return undefined
  for (const pid of names('/proc').filter((name) => /^\d+$/.test(name))) {
    const folder = `/proc/${pid}/fd`
    if (!names(folder).some((fd) => sockets.has(linkOf(`${folder}/${fd}`)))) continue
    const command = textOf(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
    return { pid: Number(pid), command: command.slice(0, commandMaxChars) || textOf(`/proc/${pid}/comm`).trim() }
  }
  return undefined
}

/** The links of the sockets that listen on the port. */
function socketsOn(port: number, table: string): string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  return textOf(`/proc/net/${table}`)
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[1]?.endsWith(`:${hex}`) === true && fields[3] === listening)
    .map((fields) => `socket:[${fields[9]}]`)
}

// A process may end while it is read, and the files of other accounts cannot be read: both are left out.
const orElse = <T>(read: () => T, otherwise: T): T => {
  try {
    return read()
  } catch (error) {
    if (error instanceof Error && 'code' in error) return otherwise
    throw error
  }
}
const names = (folder: string) => orElse(() => readdirSync(folder), [])
const linkOf = (path: string) => orElse(() => readlinkSync(path), '')
const textOf = (path: string) => orElse(() => readFileSync(path, 'latin1'), '')
