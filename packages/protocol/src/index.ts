/** What other programs see of Bellwether, HTTP routes aside (see ./http): vocabularies, messages, subjects and errors. No I/O. */
export * from './errors.js'
export * from './file-names.js'
export * from './pipe.js'
export * from './request-line.js'
export * from './spending.js'
export * from './subjects.js'
export * from './task-input.js'
export * from './vocabulary.js'
