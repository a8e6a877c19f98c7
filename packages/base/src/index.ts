/** What every package shares: time, randomness, logging, abort signals. No I/O and no dependencies. */
export * from './abort.js'
export * from './clock.js'
export * from './deferred.js'
export * from './defined.js'
export * from './environment.js'
export * from './errors.js'
export * from './log.js'
export * from './random.js'
