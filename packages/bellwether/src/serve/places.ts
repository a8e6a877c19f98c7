/** Where the run-time files of a project folder are: names that its processes and commands agree on. */

/** In the project folder, unless --data names another. */
export const dataFolder = '.bellwether'
/** The first administrator's key; only its account reads it. */
export const adminKeyFile = 'admin-key'
/** Where a running `up` says how it is reached; gone when it has gone. */
export const upFile = 'up.json'
