process VBFLOWS_VARIANTS {
    tag "$meta.id"
    label 'process_medium'

    conda "${moduleDir}/environment.yml"
    container "vbflows:0.1.0"

    input:
    tuple val(meta), path(case_reads, stageAs: "case/*"), path(case_indices, stageAs: "case/*"), path(control_reads, stageAs: "control/*"), path(control_indices, stageAs: "control/*")
    tuple val(meta2), path(fasta), path(fai)
    path bed

    output:
    tuple val(meta), path("${prefix}.vcf.gz"), emit: vcf
    tuple val(meta), path("${prefix}.vcf.gz.tbi"), emit: tbi
    tuple val(meta), path("${prefix}.callable.bed"), emit: callable, optional: true
    tuple val(meta), path("${prefix}.loci"), emit: loci
    tuple val(meta), path("${prefix}.detection"), emit: detection, optional: true
    tuple val(meta), path("${prefix}.html"), emit: report
    tuple val(meta), path("${prefix}.json"), emit: record
    path "versions.yml", emit: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def intervals = bed ? "--set bed=${bed}" : ''
    def alone = control_reads ? '' : '--set control='
    def rows = [["case", case_reads], ["control", control_reads]].collectMany { sample, reads ->
        (reads instanceof List ? reads : reads ? [reads] : [])
            .findAll { it.name ==~ /.*\.(bam|cram)/ }
            .withIndex()
            .collect { file, i -> "${sample},${i + 1},${file}" }
    }
    """
    cat <<-END_SHEET > samples.csv
    sample,replicate,path
    ${rows.join('\n    ')}
    END_SHEET

    vbflows variants samples.csv results/ \\
        --set fasta=${fasta} \\
        ${intervals} \\
        ${alone} \\
        ${args}

    mv results/runs/*/variants.vcf.gz ${prefix}.vcf.gz
    mv results/runs/*/variants.vcf.gz.tbi ${prefix}.vcf.gz.tbi
    mv results/runs/*/loci ${prefix}.loci
    mv results/runs/*/report.html ${prefix}.html
    mv results/runs/*/run.json ${prefix}.json
    [ ! -e results/runs/*/detection ] || mv results/runs/*/detection ${prefix}.detection
    [ ! -e results/runs/*/callable.bed ] || mv results/runs/*/callable.bed ${prefix}.callable.bed

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        vbflows: \$(vbflows --version | sed 's/vbflows //')
    END_VERSIONS
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    echo | gzip > ${prefix}.vcf.gz
    touch ${prefix}.vcf.gz.tbi ${prefix}.callable.bed ${prefix}.html ${prefix}.json
    mkdir ${prefix}.loci ${prefix}.detection

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        vbflows: \$(vbflows --version | sed 's/vbflows //')
    END_VERSIONS
    """
}
