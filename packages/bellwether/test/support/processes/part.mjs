/** A child process for tests of the supervisor: stays, ends, or ignores SIGTERM, as its first argument says. */
const [how = 'stay'] = process.argv.slice(2)
if (how === 'broken') process.exit(3)
process.stdout.write(`${JSON.stringify({ ready: true, how, pid: process.pid })}\n`)
if (how === 'brief') process.exit(4)
process.on('SIGTERM', () => (how === 'stubborn' ? undefined : process.exit(0)))
process.stdin.once('end', () => process.exit(0)).resume()
setInterval(() => undefined, 60_000)
