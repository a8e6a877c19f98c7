/** `bellwether open`: creates a one-time link to the dashboard and opens it in the browser of this desktop, or prints it. */
import { spawn } from 'node:child_process'
import { environment, systemClock } from '@bellwether/base'
import { Command } from 'commander'
import { openClient, serverOptions, type ServerFlags } from '../shared/client.js'
import { print } from '../shared/output.js'

interface Flags extends Pick<ServerFlags, 'server' | 'key' | 'json'> {
  readonly print?: boolean
}

export function openCommand(): Command {
  return serverOptions(new Command('open'))
    .description('open the dashboard in the browser, or print a one-time link to it')
    .option('--print', 'only print the link')
    .option('--json', 'print one JSON object with the link, and open nothing')
    .action(async (flags: Flags) => {
      const client = openClient(flags)
      const { path, expires_in_seconds: seconds } = await client.ask('POST /logins')
      const url = `${client.url.replace(/\/+$/, '')}${path}`
      const isOpened = flags.print !== true && flags.json !== true && (await openBrowser(url))
      print(flags, { url, expires_in_seconds: seconds }, () =>
        isOpened
          ? `Opened the dashboard of ${client.url}. If no browser appeared: bellwether open --print`
          : `This link works once, for ${seconds / 60} minutes:\n${url}`,
      )
    })
}

const startMs = 3_000

/** False without a desktop, or if the program that opens browsers is missing or fails. */
async function openBrowser(url: string): Promise<boolean> {
  const env = environment()
  const isMac = process.platform === 'darwin'
  if (!isMac && (env['DISPLAY'] ?? env['WAYLAND_DISPLAY']) === undefined) return false
  const child = spawn(isMac ? 'open' : 'xdg-open', [url], { stdio: 'ignore', detached: true })
  child.unref()
  const exited = new Promise<boolean>((resolve) => {
    child.once('error', () => resolve(false))
    child.once('exit', (code) => resolve(code === 0))
  })
  const over = new AbortController()
  // A browser that this call started runs as long as its window.
  const isOpen = await Promise.race([exited, systemClock.sleep(startMs, over.signal).then(() => true)])
  over.abort()
  return isOpen
}
