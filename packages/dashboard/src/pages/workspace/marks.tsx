/** The marks of files with their meaning: whether an entry may be incomplete or out of date. */
import type { Entry } from '../../api/types.js'
import { bytes } from '../../model/text.js'
import { Chip } from '../../parts/status.js'

export const markMeanings = {
  suspect: 'The file may be incomplete: it was being written when it was last reported. Read it again later.',
  blind: 'No sensor saw the last change happen: it was made on a host without a sensor.',
  gone: 'The file was deleted on a host without a sensor; an audit found the deletion.',
  unreadable:
    'The sensor could not read this folder or some of its entries. What is shown below it may be out of date.',
  skipped: 'The last audit skipped this folder, because its mtime had not changed.',
} as const

export function Marks({ node }: { readonly node: Entry }) {
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
      {node.unreadable === true && (
        <Chip tone="bad" title={markMeanings.unreadable}>
          cannot be read
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

export const sizeOrLink = (node: Entry): string => (node.content_type === 'symlink' ? 'link' : bytes(node.size))

export const Gone = () => (
  <Chip tone="bad" title={markMeanings.gone}>
    deleted unseen
  </Chip>
)
