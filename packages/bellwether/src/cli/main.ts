#!/usr/bin/env node
/**
 * The command line as a process. One file a command, found by run.ts. Human output on a terminal, with --json one object a line on
 * stdout; logs on stderr; exit 0 ok, 1 failure, 2 usage.
 */
import { commands } from './commands.js'
import { exitCodes } from './output.js'
import { run } from './run.js'

const words = process.argv.slice(2)
// A reader that is gone wants no more: `bellwether turn list | head` ends in peace. A house goes on without its reader.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (commands[words[0] ?? '']?.lasting !== true)
    process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failure)
})
// What nobody reads any more is not worth dying for.
process.stderr.on('error', () => undefined)
const code = await run(words)
// Agent code may have left timers and sockets behind: the process ends when its work has ended, and when its words are out.
process.stdout.write('', () => process.exit(code))
