/**
 * The sensor runs on every host that shares files and reports the files on disk to the server. It runs realtime, snapshot,
 * audit and sentinel tasks in a session whose heartbeat no task can stop. It needs no database.
 */
export { startSensor, type Sensor, type SensorOptions } from './sensor.js'
export type { Http } from './ports/http.js'
export { openScanner, type ScanReport, type Scanner, type ScanRequest } from './scan/scanner.js'
