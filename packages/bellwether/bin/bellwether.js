#!/usr/bin/env node
/**
 * The `bellwether` command. In a clone it first builds what is missing or out of date; a packed tarball has no `build.js`
 * and is always built.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const needed = 20
if (Number.parseInt(process.versions.node, 10) < needed) {
  process.stderr.write(
    `bellwether needs Node ${needed} or newer, and this is Node ${process.versions.node}. Install a newer one: https://nodejs.org\n`,
  )
  process.exit(1)
}

const buildScript = new URL('build.js', import.meta.url)
const main = new URL('../dist/cli/main.js', import.meta.url)

if (existsSync(buildScript)) {
  const { buildIfStale } = await import(buildScript.href)
  const failure = buildIfStale()
  if (failure !== undefined) {
    process.stderr.write(`bellwether: ${failure}\n`)
    process.exit(1)
  }
}

// Child processes of this program start the built file, so that an edit in `src` does not rebuild under a running server.
process.argv[1] = fileURLToPath(main)
await import(main.href)
