/** A child process that starts the embedded PostgreSQL in a folder, prints its address, and keeps running. */
import { startEmbedded } from '../../../src/ports/database/embedded.js'
import { quietLog } from '../quiet-log.js'

const dataDir = process.argv[2]
const orphanMs = Number(process.argv[3] ?? 600_000)
if (dataDir === undefined) throw new Error('usage: embedded-child DIR')
const embedded = await startEmbedded({ dataDir, log: quietLog, settings: { fsync: 'off' }, orphanMs })
process.stdout.write(`${JSON.stringify({ url: embedded.url, pid: embedded.pid, adopted: embedded.adopted })}\n`)
process.once('SIGTERM', () => void embedded.stop())
