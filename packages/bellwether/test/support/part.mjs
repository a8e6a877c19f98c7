/** A part of a house, for tests of those who keep one: says that it is ready, or ends, as its words say. */
const [how = 'stay'] = process.argv.slice(2)
if (how === 'broken') process.exit(3)
process.stdout.write(`${JSON.stringify({ ready: true, how, pid: process.pid })}\n`)
if (how === 'brief') process.exit(4)
process.on('SIGTERM', () => (how === 'stubborn' ? undefined : process.exit(0)))
process.stdin.once('end', () => process.exit(0)).resume()
setInterval(() => undefined, 60_000)
