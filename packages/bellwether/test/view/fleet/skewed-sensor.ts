/** A sensor with a wrong clock: `skewed-sensor.ts ROOT SERVER KEY ID SECONDS`. It exits when its stdin closes. */
import { systemClock } from '@bellwether/base'
import { startSensor } from '@bellwether/sensor'
import { openLog } from '../../../src/runtime/logger.js'

const [root = '', server = '', key = '', id = '', seconds = '0'] = process.argv.slice(2)
const clock = { ...systemClock, wallMs: () => systemClock.wallMs() + Number(seconds) * 1_000 }
startSensor({ root, server, keys: [key], id, clock, log: openLog(`sensor ${id}`) })
process.stdin.on('end', () => process.exit(0)).resume()
