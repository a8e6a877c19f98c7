/** Names of files and folders that the processes and commands of a project agree on. */

/** In the project folder: one file per agent. */
export const agentsFolder = 'agents'
/** In the project folder, unless --data names another: the files of running processes. */
export const dataFolder = '.bellwether'
/** The first administrator's key; only its account can read it. */
export const adminKeyFile = 'admin-key'
/** The addresses of a running `up`; removed when it stops. */
export const upFile = 'up.json'
/** The key of the sensor that `up` runs. */
export const sensorKeyFile = 'sensor-key'
/** Locked by an `up` that does not use the embedded database. */
export const lockFile = 'up.lock'
/** The embedded database. */
export const databaseFolder = 'database'
