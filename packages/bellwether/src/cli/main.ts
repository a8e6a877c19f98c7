#!/usr/bin/env node
/**
 * The entry point of the command line. run.ts finds the command. Output goes to stdout, with --json as one object per line; logs go to
 * stderr. Exit codes: 0 success, 1 failure, 2 wrong usage.
 */
import { commands } from './commands.js'
import { exitCodes } from './shared/output.js'
import { run } from './run.js'

const words = process.argv.slice(2)
// When the reader of a pipe goes away, as in `bellwether turn list | head`, a command exits. A server keeps running.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (commands[words[0] ?? '']?.longRunning !== true)
    process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failure)
})
// Lost log output is not a reason to exit.
process.stderr.on('error', () => undefined)
// Help and the version start no program.
if (words[0] !== undefined && words[0] in commands)
  (await import('../ports/search-path.js')).separateSearchPath(process.cwd())
const code = await run(words)
// Exit explicitly after the output is flushed, because agent code may leave timers and sockets open.
process.stdout.write('', () => process.exit(code))
