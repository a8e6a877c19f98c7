/** The marks of files, each with what it means: a reader decides by them whether to trust an entry. */
import type { FileNode } from '../api/board-types.js'
import { Chip } from './status.js'

export const markMeanings = {
  suspect: 'It may not be whole: it was being written when it was last heard of. Read it again later.',
  blind: 'Its last change was seen by no sensor as it happened: somebody changed it where nobody watches.',
  gone: 'It was deleted where no sensor watches; an audit found out.',
  skipped: 'The last audit did not read this folder, because its time had not changed.',
} as const

export function Marks({ node }: { readonly node: FileNode }) {
  return (
    <>
      {node.integrity_suspect === true && (
        <Chip tone="wait" title={markMeanings.suspect}>
          suspect
        </Chip>
      )}
      {node.agent_missing === true && (
        <Chip tone="person" title={markMeanings.blind}>
          blind spot
        </Chip>
      )}
      {node.audit_skipped === true && (
        <Chip tone="rest" title={markMeanings.skipped}>
          not audited
        </Chip>
      )}
    </>
  )
}

export const Gone = () => (
  <Chip tone="bad" title={markMeanings.gone}>
    deleted unseen
  </Chip>
)
