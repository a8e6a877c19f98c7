/**
 * Prints what another process of the same account reads of this one's environment, and which files a program inherits. With the argument
 * `hide`, this process hides first.
 */
import { spawnSync } from 'node:child_process'
import { hideProcess } from '../../../src/ports/processes/hide-process.js'

const isHidden = process.argv[2] === 'hide' && hideProcess()
const { stdout, status } = spawnSync('cat', [`/proc/${process.pid}/environ`], { encoding: 'utf8' })
const inherited = spawnSync('/bin/sh', ['-c', 'test -e /proc/self/fd/20']).status === 0
process.stdout.write(`${JSON.stringify({ isHidden, status, found: stdout.includes('SECRET=hush'), inherited })}\n`)
