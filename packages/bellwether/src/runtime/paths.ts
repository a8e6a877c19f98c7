/** Where the run-time files of a project folder are: names that its processes and commands agree on. */

/** One file an agent, in the project folder. */
export const agentsFolder = 'agents'
/** In the project folder, unless --data names another. */
export const dataFolder = '.bellwether'
/** The first administrator's key; only its account reads it. */
export const adminKeyFile = 'admin-key'
/** Where a running `up` says how it is reached; gone when it has gone. */
export const upFile = 'up.json'
/** The key of the sensor that `up` runs. */
export const sensorKeyFile = 'sensor-key'
/** Held by an `up` whose database is elsewhere. */
export const lockFile = 'up.lock'
/** The embedded database. */
export const databaseFolder = 'database'
