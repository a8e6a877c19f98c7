/**
 * The sensor runs on every host that shares files and tells the server what is on disk: realtime, snapshot, audit and
 * sentinel tasks inside a shell that never stops its heartbeat. It has no database and imports the protocol only.
 */
export { startSensor, type Sensor, type SensorOptions } from './sensor.js'
export { openScanner, type ScanReport, type Scanner, type ScanRequest } from './scan/scanner.js'
