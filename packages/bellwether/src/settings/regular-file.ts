/** Reads a text file of a project that may be hostile: a pipe would block its reader, and a device might never end. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'

export function readRegularFile(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (fstatSync(file).isFile()) return readFileSync(file, 'utf8')
  } finally {
    closeSync(file)
  }
  throw Object.assign(new Error(`${path} is not a regular file`), { code: 'EINVAL' })
}

/** The same, with errors as rejections. */
export const readProjectFile = async (path: string): Promise<string> => readRegularFile(path)
