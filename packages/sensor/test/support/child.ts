/** A sensor as a process of its own: `child.ts ROOT SERVER ID`. Ends when its stdin does, so that no test leaves one behind. */
import { startSensor } from '../../src/sensor.js'
import { recordingLog } from './world.js'

const [root = '', server = '', id = ''] = process.argv.slice(2)
startSensor({ root, server, keys: ['k'], id, log: recordingLog([]) })
process.stdin.on('end', () => process.exit(0)).resume()
