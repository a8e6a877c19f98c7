/** What other programs see of Bellwether: names, shapes and errors. No logic beyond checking them, no I/O. */
export * from './errors.js'
export * from './pipe.js'
export * from './subjects.js'
export * from './vocabulary.js'
export * from './file-names.js'
