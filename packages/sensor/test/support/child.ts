/** A sensor as a separate process: `child.ts ROOT SERVER ID`. It exits when its stdin closes, so that no test leaves one behind. */
import { startSensor } from '../../src/sensor.js'
import { recordingLog } from './fixture.js'

const [root = '', server = '', id = ''] = process.argv.slice(2)
startSensor({ root, server, keys: ['k'], id, log: recordingLog([]) })
process.stdin.on('end', () => process.exit(0)).resume()
