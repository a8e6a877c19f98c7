/** The results of a file search, as paths. */
import type { FoundFiles as Files } from '../../api/types.js'
import { count, oneLine } from '../../model/text.js'
import { Marks, sizeOrLink } from './marks.js'
import { VirtualRows } from '../../parts/rows.js'
import { Empty } from '../../parts/query-state.js'

export function FoundFiles({ found }: { readonly found: Files }) {
  if (found.results.length === 0) return <Empty title="No matching files">Use * and ? as wildcards.</Empty>
  return (
    <div className="flex h-full flex-col">
      <div className="min-h-0 flex-1">
        <VirtualRows
          label="Files found"
          items={found.results}
          height={30}
          keyOf={(node) => `${node.source_id} ${node.path}`}
          open={() => {}}
        >
          {(node) => (
            <div className="flex h-full items-center gap-2 px-3 text-sm">
              <bdi className="min-w-0 flex-1 truncate font-mono text-xs" title={oneLine(node.path, 1_000)}>
                {oneLine(node.path, 400)}
              </bdi>
              <Marks node={node} />
              <span className="w-16 text-right text-xs text-ink-3">
                {node.content_type === 'directory' ? 'folder' : sizeOrLink(node)}
              </span>
            </div>
          )}
        </VirtualRows>
      </div>
      <p className="label border-t border-line px-3 py-1">
        {count(found.count)} found{found.truncated ? '; more exist' : ''}
      </p>
    </div>
  )
}
