/**
 * What other programs see of Bellwether: vocabularies, messages, subjects and errors. No I/O. This entry point loads no schemas,
 * because zod takes half of the start of a short command: HTTP routes are in ./http, the pipe's schemas in ./pipe, a task's in ./task-input.
 */
export * from './counts.js'
export * from './degrade.js'
export * from './errors.js'
export * from './file-names.js'
export type * from './pipe.js'
export * from './pipe-vocabulary.js'
export * from './request-line.js'
export * from './spending.js'
export * from './subjects.js'
export type * from './task-input.js'
export * from './transcript-text.js'
export * from './vocabulary.js'
