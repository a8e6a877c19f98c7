/** A sensor whose host's clock is wrong: `skewed-sensor.ts ROOT SERVER KEY ID SECONDS`. Ends when its stdin does. */
import { systemClock } from '@bellwether/base'
import { startSensor } from '@bellwether/sensor'
import { openLog } from '../../../src/runtime/logger.js'

const [root = '', server = '', key = '', id = '', seconds = '0'] = process.argv.slice(2)
const clock = { ...systemClock, wallMs: () => systemClock.wallMs() + Number(seconds) * 1_000 }
startSensor({ root, server, keys: [key], id, clock, log: openLog(`sensor ${id}`) })
process.stdin.on('end', () => process.exit(0)).resume()
